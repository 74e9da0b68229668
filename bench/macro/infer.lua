-- What wrk sends: one binary tensor of 512 bytes (128 numbers of 32 bits), binary answer.
local json = '{"id":"1","inputs":[{"name":"INPUT","shape":[1,128],"datatype":"FP32","parameters":{"binary_data_size":512}}],"outputs":[{"name":"OUTPUT","parameters":{"binary_data":true}}]}'
wrk.method = "POST"
wrk.body = json .. string.rep("\0\0\128\63", 128)
wrk.headers["Content-Type"] = "application/octet-stream"
wrk.headers["Inference-Header-Content-Length"] = tostring(#json)
