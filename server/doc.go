// Package server serves lmserve over HTTP: routes, authentication, limits, streaming and errors, as
// defined by the contract, api/openapi.yaml. A handler decodes a request, calls one method of the
// session manager, and encodes the result.
//
// # Layers
//
// Each package below imports only packages above it:
//
//	limits      limits of requests and answers
//	routes      the contract's routes, requests and responses; generated
//	problem     problem documents (RFC 9457) for errors
//	contract    the contract's operations and media types; validation of requests
//	docs        the contract as an HTML page
//	codec       conversion between types of package api and package session
//	answer      problem documents, event streams and files as answers; a record of each answer
//	middleware  steps that every request passes, one per file
//	handler     the operations of the contract
//	server      Options, New, Serve and Drain
//
// # Where to add
//
// To add a route, add its operation to api/openapi.yaml and run `make generate`. Then add a method
// to handler.Handlers in a new file; the generated interface gives its name. Routing,
// authentication, content negotiation, limits and validation follow from the contract. The tests of
// this package try every operation with good and bad keys, and check every answer against the
// contract. Package codec maps the fields of requests and answers. If the handler needs a new
// method of the session manager, declare the method in handler.Sessions.
//
// The examples in the contract are real answers. Each operation has at least one example in
// exchanges_test.go. With LMSERVE_UPDATE_EXAMPLES=1 the tests write the examples into the contract.
//
// To add a middleware, add a file to package middleware and a line to newRouter (routes.go). The
// lines are in the order in which a request passes them.
//
// To add a problem type, add a row to ProblemType in the contract and to problem.Kinds, and map
// errors to the type in problem.Of. To add a limit, add a constant to package limits and a number
// to the contract, in x-limits or in the schema of a field. A test compares the two numbers.
package server
