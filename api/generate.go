package api

//go:generate go run ../internal/generate
//go:generate go tool oapi-codegen -config oapi-codegen.yaml ../bin/openapi.yaml
