// Kubernetes: the gateway, the controller, the nodes' cutters and their rights, as plain manifests.
//
// The controller makes the pods of the slices itself (`tangram controller`). What is written here is what it and the
// gateway need to start: the definition of the Plan resource, accounts with the least rights, and the plan as a resource.

#include <fmt/format.h>

#include <map>

#include "base/text.h"
#include "formats/exports/exports.h"
#include "formats/plan_file.h"
#include "formats/schema.h"

namespace tangram::formats::exports {
namespace {

// A structural schema of OpenAPI 3.0, as the API server wants it: no `additionalProperties` beside `properties` (unknown
// fields are pruned), and exclusive limits as booleans.
Node structural(const Node& schema) {
  Node made = schema;
  if (schema.kind == Node::Kind::sequence) {
    for (auto& item : made.items) item = structural(item);
    return made;
  }
  if (schema.kind != Node::Kind::map) return made;
  made.entries.clear();
  for (const auto& entry : schema.entries) {
    if (entry.key == "$schema" || entry.key == "title" || entry.key == "additionalProperties") continue;
    if (entry.key == "exclusiveMinimum" || entry.key == "exclusiveMaximum") {
      made.entries.push_back({entry.key == "exclusiveMinimum" ? "minimum" : "maximum", {}, entry.value});
      made.entries.push_back({entry.key, {}, plain_node("true")});
      continue;
    }
    if (entry.key != "properties") {
      made.entries.push_back({entry.key, {}, structural(entry.value)});
      continue;
    }
    // The names of properties are no keywords.
    Entry properties{"properties", {}, map_node({})};
    for (const auto& property : entry.value.entries) {
      properties.value.entries.push_back({property.key, {}, structural(property.value)});
    }
    made.entries.push_back(std::move(properties));
  }
  return made;
}

Node word(const char* text) { return text_node(text); }

Node printer_column(const char* name, const char* type, const char* path) {
  return map_node({{"name", word(name)}, {"type", word(type)}, {"jsonPath", word(path)}});
}

Node plan_definition() {
  Problems problems("plan.schema.json");
  const auto schema = parse_json({"plan.schema.json", *json_schema("plan")}, problems);
  TANGRAM_CHECK(schema.has_value(), "our own schema is JSON");
  Node open = map_node({{"type", word("object")}, {"x-kubernetes-preserve-unknown-fields", plain_node("true")}});
  const Node properties = map_node({{"apiVersion", map_node({{"type", word("string")}})},
                                    {"kind", map_node({{"type", word("string")}})},
                                    {"metadata", map_node({{"type", word("object")}})},
                                    {"spec", structural(*schema)},
                                    {"status", std::move(open)}});
  const Node version =
      map_node({{"name", word("v1")},
                {"served", plain_node("true")},
                {"storage", plain_node("true")},
                {"subresources", map_node({{"status", map_node({})}})},
                {"additionalPrinterColumns",
                 list_node({printer_column("Slices", "string", ".status.ready"),
                            printer_column("Accepted", "string", ".status.conditions[?(@.type==\"Accepted\")].status"),
                            printer_column("Cut", "string", ".status.conditions[?(@.type==\"Cut\")].reason"),
                            printer_column("Ready", "string", ".status.conditions[?(@.type==\"Ready\")].status"),
                            printer_column("Age", "date", ".metadata.creationTimestamp")})},
                {"schema", map_node({{"openAPIV3Schema", map_node({{"type", word("object")},
                                                                  {"required", list_node({word("spec")})},
                                                                  {"properties", properties}})}})}});
  return map_node(
      {{"apiVersion", word("apiextensions.k8s.io/v1")},
       {"kind", word("CustomResourceDefinition")},
       {"metadata", map_node({{"name", word("plans.tangram.dev")}})},
       {"spec", map_node({{"group", word("tangram.dev")},
                          {"scope", word("Namespaced")},
                          {"names", map_node({{"kind", word("Plan")},
                                              {"listKind", word("PlanList")},
                                              {"plural", word("plans")},
                                              {"singular", word("plan")}})},
                          {"versions", list_node({version})}})}});
}

Result<Node> plan_resource(const ExportInput& input) {
  Problems problems("plan");
  auto spec = parse_json({"plan", write_plan(*input.plan)}, problems);
  TANGRAM_CHECK(spec.has_value(), "a written plan is JSON");
  return map_node({{"apiVersion", word("tangram.dev/v1")},
                   {"kind", word("Plan")},
                   {"metadata", map_node({{"name", text_node(dns_label(input.options.label))},
                                          {"namespace", text_node(input.options.name_space)}})},
                   {"spec", std::move(*spec)}});
}

// Words in double braces are replaced; everything else is as the API server gets it.
constexpr const char* kManifests = R"yaml(apiVersion: v1
kind: ServiceAccount
metadata: {name: tangram-gateway, namespace: {{namespace}}}
automountServiceAccountToken: false
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: tangram-node, namespace: {{namespace}}}
automountServiceAccountToken: false
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: tangram-cutter, namespace: {{namespace}}}
automountServiceAccountToken: false
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: tangram-controller, namespace: {{namespace}}}
---
# Server-side apply needs create and patch. Nothing may be read that is not listed: no secrets, no other namespace.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: tangram-controller, namespace: {{namespace}}}
rules:
- {apiGroups: [tangram.dev], resources: [plans], verbs: [get, list, watch]}
- {apiGroups: [tangram.dev], resources: [plans/status], verbs: [patch]}
- {apiGroups: [""], resources: [pods], verbs: [get, list, watch, create, patch, delete]}
- {apiGroups: [""], resources: [configmaps], verbs: [list, watch]}
- {apiGroups: [""], resources: [configmaps], verbs: [create]}
- {apiGroups: [""], resources: [configmaps], resourceNames: [tangram-cuts], verbs: [get, patch]}
- {apiGroups: [resource.k8s.io], resources: [resourceclaims], verbs: [get, list, watch, create, patch, delete]}
- {apiGroups: [policy], resources: [poddisruptionbudgets], verbs: [get, list, watch, create, patch, delete]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create]}
- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [tangram-controller], verbs: [get, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tangram-controller, namespace: {{namespace}}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: tangram-controller}
subjects:
- {kind: ServiceAccount, name: tangram-controller, namespace: {{namespace}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: tangram-controller}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [list, watch]}
- {apiGroups: [resource.k8s.io], resources: [resourceslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: {{binding}}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tangram-controller}
subjects:
- {kind: ServiceAccount, name: tangram-controller, namespace: {{namespace}}}
---
# What the gateway remembers: who may join, and its certificate.
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: tangram-gateway, namespace: {{namespace}}}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: tangram-gateway, namespace: {{namespace}}, labels: {app.kubernetes.io/name: tangram-gateway}}
spec:
  replicas: 1
  # Two gateways would both tell the nodes what to do.
  strategy: {type: Recreate}
  selector: {matchLabels: {app.kubernetes.io/name: tangram-gateway}}
  template:
    metadata: {labels: {app.kubernetes.io/name: tangram-gateway}}
    spec:
      serviceAccountName: tangram-gateway
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 60
      securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: gateway
        image: {{image}}
        args: [serve, /etc/tangram/plan.json, --services, /etc/tangram/services.yaml, --model, /etc/tangram/model.json, --address, 0.0.0.0, --admin-address, 0.0.0.0, --node-port, "8003", --node-state, /var/lib/tangram]
        ports:
        - {name: http, containerPort: 8000}
        - {name: grpc, containerPort: 8001}
        - {name: metrics, containerPort: 8002}
        - {name: nodes, containerPort: 8003}
        startupProbe: {httpGet: {path: /v2/health/live, port: http}, periodSeconds: 2, failureThreshold: 60}
        livenessProbe: {httpGet: {path: /v2/health/live, port: http}, periodSeconds: 10, failureThreshold: 3}
        readinessProbe: {httpGet: {path: /v2/health/ready, port: http}, periodSeconds: 2, failureThreshold: 2}
        resources: {requests: {cpu: "1", memory: 1Gi}, limits: {memory: 4Gi}}
        securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
        volumeMounts:
        - {name: files, mountPath: /etc/tangram, readOnly: true}
        - {name: state, mountPath: /var/lib/tangram}
        - {name: scratch, mountPath: /tmp}
      volumes:
      - {name: files, configMap: {name: tangram-files}}
      - {name: state, persistentVolumeClaim: {claimName: tangram-gateway}}
      - {name: scratch, emptyDir: {}}
---
apiVersion: v1
kind: Service
metadata: {name: tangram-gateway, namespace: {{namespace}}, labels: {app.kubernetes.io/name: tangram-gateway}}
spec:
  selector: {app.kubernetes.io/name: tangram-gateway}
  ports:
  - {name: http, port: 8000, targetPort: http}
  - {name: grpc, port: 8001, targetPort: grpc}
  - {name: metrics, port: 8002, targetPort: metrics}
  - {name: nodes, port: 8003, targetPort: nodes}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: tangram-controller, namespace: {{namespace}}, labels: {app.kubernetes.io/name: tangram-controller}}
spec:
  replicas: 2
  selector: {matchLabels: {app.kubernetes.io/name: tangram-controller}}
  template:
    metadata: {labels: {app.kubernetes.io/name: tangram-controller}}
    spec:
      serviceAccountName: tangram-controller
      securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: controller
        image: {{image}}
        args: [controller, --join, "tangram-gateway:8003", --image, {{image}}, --models-claim, {{models}}]
        resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {memory: 1Gi}}
        securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
---
# Cuts its node as the controller orders. It needs the driver, and has no rights at the API server.
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: tangram-cutter, namespace: {{namespace}}, labels: {app.kubernetes.io/name: tangram-cutter}}
spec:
  selector: {matchLabels: {app.kubernetes.io/name: tangram-cutter}}
  template:
    metadata: {labels: {app.kubernetes.io/name: tangram-cutter}}
    spec:
      serviceAccountName: tangram-cutter
      automountServiceAccountToken: false
      nodeSelector: {nvidia.com/gpu.present: "true"}
      tolerations:
      - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      containers:
      - name: cutter
        image: {{image}}
        command: [/bin/sh, -c]
        args:
        - |
          done=
          while sleep 2; do
            order=/cuts/$NODE_NAME.json
            [ -s "$order" ] || continue
            now=$(sha256sum <"$order")
            [ "$now" = "$done" ] && continue
            gpus=$(sed -n 's/.*"name": "gpu-\([0-9]*\)".*/--gpu gpu-\1=\1/p' "$order")
            tangram apply "$order" $gpus && done=$now
          done
        env:
        - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
        - {name: NVIDIA_VISIBLE_DEVICES, value: all}
        - {name: NVIDIA_DRIVER_CAPABILITIES, value: utility}
        - {name: NVIDIA_MIG_CONFIG_DEVICES, value: all}
        - {name: TANGRAM_STATE, value: /var/lib/tangram}
        resources: {requests: {cpu: 10m, memory: 64Mi}, limits: {memory: 256Mi}}
        securityContext: {privileged: true}
        volumeMounts:
        - {name: cuts, mountPath: /cuts, readOnly: true}
        - {name: state, mountPath: /var/lib/tangram}
      volumes:
      - {name: cuts, configMap: {name: tangram-cuts, optional: true}}
      - {name: state, hostPath: {path: /var/lib/tangram, type: DirectoryOrCreate}}
---
# Only the pods of slices may dial the node port; clients and Prometheus reach the rest.
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: tangram-gateway, namespace: {{namespace}}}
spec:
  podSelector: {matchLabels: {app.kubernetes.io/name: tangram-gateway}}
  policyTypes: [Ingress]
  ingress:
  - ports:
    - {port: 8000, protocol: TCP}
    - {port: 8001, protocol: TCP}
  - from:
    - podSelector: {}
    - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}
    ports:
    - {port: 8002, protocol: TCP}
  - from:
    - podSelector: {matchLabels: {app.kubernetes.io/name: tangram-slice}}
    ports:
    - {port: 8003, protocol: TCP}
---
# Nobody dials a slice, and a slice dials nobody but the gateway and the names' server.
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: tangram-slice, namespace: {{namespace}}}
spec:
  podSelector: {matchLabels: {app.kubernetes.io/name: tangram-slice}}
  policyTypes: [Ingress, Egress]
  ingress: []
  egress:
  - to:
    - podSelector: {matchLabels: {app.kubernetes.io/name: tangram-gateway}}
    ports:
    - {port: 8003, protocol: TCP}
  - ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: tangram-controller, namespace: {{namespace}}}
spec:
  podSelector: {matchLabels: {app.kubernetes.io/name: tangram-controller}}
  policyTypes: [Ingress, Egress]
  ingress: []
  egress:
  - ports:
    - {port: 443, protocol: TCP}
    - {port: 6443, protocol: TCP}
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: tangram-controller, namespace: {{namespace}}}
spec:
  maxUnavailable: 1
  selector: {matchLabels: {app.kubernetes.io/name: tangram-controller}}
)yaml";

std::string filled(std::string_view text, const std::map<std::string, std::string>& words) {
  std::string made;
  for (std::size_t at = 0; at < text.size();) {
    const auto open = text.find("{{", at);
    const auto close = open == std::string_view::npos ? open : text.find("}}", open);
    const auto name = close == std::string_view::npos ? std::string() : std::string(text.substr(open + 2, close - open - 2));
    const auto found = words.find(name);
    if (found == words.end()) {
      // A flow mapping within another has two braces as well.
      const auto end = open == std::string_view::npos ? text.size() : open + 1;
      made += text.substr(at, end - at);
      at = end;
      continue;
    }
    made += text.substr(at, open - at);
    made += found->second;
    at = close + 2;
  }
  return made;
}

// A scalar of YAML in double quotes.
std::string in_quotes(const std::string& text) {
  std::string made = "\"";
  for (const char c : text) made += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return made + "\"";
}

}  // namespace

Result<Export> kubernetes_gateway(const ExportInput& input) {
  Export result;
  ExportInput named = input;
  if (named.options.name_space.empty()) named.options.name_space = "default";
  // Errors in names are found here, before the controller finds them.
  TANGRAM_RETURN_IF_ERROR(nodes_of(named, result.notes));
  TANGRAM_TRY(const Node plan, plan_resource(named));
  const std::string manifests = filled(kManifests, {{"binding", in_quotes("tangram-controller-" + named.options.name_space)},
                                                    {"namespace", in_quotes(named.options.name_space)},
                                                    {"image", in_quotes(named.options.image)},
                                                    {"models", in_quotes(named.options.models_claim)}});
  result.files.push_back({"manifests.yaml", to_yaml(plan_definition()) + "---\n" + manifests + "---\n" + to_yaml(plan)});
  result.notes.push_back(fmt::format(
      "the gateway reads plan.json, services.yaml and model.json from the ConfigMap tangram-files: kubectl create configmap "
      "tangram-files --namespace {} --from-file=plan.json --from-file=services.yaml --from-file=model.json",
      named.options.name_space));
  result.notes.push_back(fmt::format(
      "the pods join with the token in the Secret tangram-join: kubectl create secret generic tangram-join --namespace {} "
      "--from-file=token",
      named.options.name_space));
  return result;
}

}  // namespace tangram::formats::exports
