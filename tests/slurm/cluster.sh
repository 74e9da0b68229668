#!/usr/bin/env bash
# cluster.sh start DIR [NODES] [PORT] | stop DIR
#
# A real Slurm of several nodes on this machine, for tests and for trying things out. All of its state is in DIR, it
# listens on 127.0.0.1 only (PORT and the NODES ports behind it), and it needs no root: every node has seven slices that
# Slurm takes for GPUs of type 1g.10gb, and two of type 3g.40gb, which are empty files. `start` prints what to put into
# the environment. Two partitions: "infer" goes before "train" and preempts it.
set -euo pipefail
action=${1:?start or stop} dir=$(mkdir -p "${2:?a folder}" && cd "$2" && pwd) nodes=${3:-3} port=${4:-25100}

pids() { cat "$dir"/run/*.pid 2>/dev/null || true; }

stop() {
  local pid left
  for pid in $(pids); do kill "$pid" 2>/dev/null || true; done
  for _ in $(seq 50); do
    left=no
    for pid in $(pids); do kill -0 "$pid" 2>/dev/null && left=yes; done
    [[ $left == no ]] && break
    sleep 0.1
  done
  for pid in $(pids); do kill -9 "$pid" 2>/dev/null || true; done
  rm -f "$dir"/run/*.pid
}

write_configuration() {
  local me names=() n
  me=$(id -un)
  for n in $(seq "$nodes"); do names+=("n$n"); done
  cat >"$dir/etc/slurm.conf" <<C
ClusterName=laptop
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$me
SlurmdUser=$me
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$dir/run/munge.socket,cred_expire=5
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/slurmd.%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_interval=2,bf_continue,batch_sched_delay=0,sched_min_interval=0
PriorityType=priority/basic
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=${SLURMD_TIMEOUT:-300}
KillWait=5
SlurmdParameters=config_overrides
DefMemPerCPU=100
GresTypes=gpu
C
  : >"$dir/etc/gres.conf"
  for n in $(seq "$nodes"); do
    echo "NodeName=n$n NodeHostname=localhost NodeAddr=127.0.0.1 Port=$((port + n)) CPUs=16 RealMemory=8000 Gres=gpu:1g.10gb:7,gpu:3g.40gb:2 State=UNKNOWN" >>"$dir/etc/slurm.conf"
    mkdir -p "$dir/dev/n$n" "$dir/spool/n$n"
    touch "$dir/dev/n$n"/mig{0..8}
    cat >>"$dir/etc/gres.conf" <<C
NodeName=n$n Name=gpu Type=1g.10gb File=$dir/dev/n$n/mig[0-6]
NodeName=n$n Name=gpu Type=3g.40gb File=$dir/dev/n$n/mig[7-8]
C
  done
  cat >>"$dir/etc/slurm.conf" <<C
PartitionName=train Nodes=ALL Default=YES MaxTime=INFINITE DefaultTime=60 State=UP PriorityTier=1 PreemptMode=CANCEL GraceTime=0
PartitionName=infer Nodes=ALL Default=NO MaxTime=INFINITE DefaultTime=60 State=UP PriorityTier=10 PreemptMode=OFF
C
  echo 'CgroupPlugin=autodetect' >"$dir/etc/cgroup.conf"
}

start() {
  local program n
  for program in munged slurmctld slurmd sbatch squeue; do
    command -v "$program" >/dev/null || { echo "cluster.sh: $program is not installed (packaging/install-packages slurm)" >&2; exit 77; }
  done
  mkdir -p "$dir"/{etc,state,log,run,spool,dev}
  chmod 755 "$dir/run"
  write_configuration
  if [[ ! -e $dir/etc/munge.key ]]; then
    (umask 077 && head -c 1024 /dev/urandom >"$dir/etc/munge.key")
    chmod 400 "$dir/etc/munge.key"
  fi
  munged --force --key-file="$dir/etc/munge.key" --socket="$dir/run/munge.socket" --pid-file="$dir/run/munged.pid" \
    --log-file="$dir/log/munged.log" --seed-file="$dir/state/munged.seed" >"$dir/log/start.log" 2>&1
  export SLURM_CONF=$dir/etc/slurm.conf
  slurmctld -f "$SLURM_CONF" >>"$dir/log/start.log" 2>&1
  for n in $(seq "$nodes"); do slurmd -N "n$n" -f "$SLURM_CONF" >>"$dir/log/start.log" 2>&1; done
  for _ in $(seq 100); do
    [[ $(sinfo -h -N -p infer -t idle -o %N 2>/dev/null | wc -l) == "$nodes" ]] && { echo "export SLURM_CONF=$SLURM_CONF"; return; }
    sleep 0.1
  done
  echo "cluster.sh: not all nodes are idle after 10 s: $(sinfo -h -N -o '%N %T %E' 2>&1 | tr '\n' ';'); see $dir/log" >&2
  exit 1
}

case $action in
  start) start ;;
  stop) stop ;;
  *) echo "cluster.sh: expected start or stop, found $action" >&2; exit 2 ;;
esac
