// Package routes is generated from api/openapi.yaml: the route of each operation, its parameters
// decoded, and the Go types of its request and its responses. Package handler implements its
// StrictServerInterface.
package routes

//go:generate go tool oapi-codegen -config oapi-codegen.yaml ../../bin/openapi.yaml
