// Package routes is generated from api/openapi.yaml: the routes, their decoded parameters, and the
// Go types of requests and responses. Package handler implements its StrictServerInterface.
package routes

//go:generate go tool oapi-codegen -config oapi-codegen.yaml ../../bin/openapi.yaml
