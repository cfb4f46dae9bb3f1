// Package server is lmserve over HTTP: routes, authentication, limits, streaming and errors, as
// api/openapi.yaml defines them. It holds no model code: a handler decodes a request, calls one
// method of the session manager, and encodes the result.
//
// # Layers
//
// Each package below imports only packages above it:
//
//	limits      limits of requests and answers
//	routes      the contract's routes, requests and responses, generated
//	problem     errors as problem documents (RFC 9457): their types, and the mapping from errors
//	contract    api/openapi.yaml, ready for use: operations, media types, validation of requests
//	docs        the contract as a page for reading
//	codec       conversion between types of package api and package session
//	answer      problem documents, event streams, files, and a record of each answer
//	middleware  steps that every request passes, one per file
//	handler     the operations of the contract
//	server      Options, New, Serve and Drain
//
// # Where to add
//
// A route is an operation in api/openapi.yaml (then `make generate`) and a method of
// handler.Handlers in its own file. The generated interface names the method, and the compiler
// demands it. Routing, authentication, content negotiation, limits and validation follow from the
// contract. The tests of this package try every operation with good and bad keys, and check every
// answer against the contract. Package codec maps the fields of requests and answers. A method that
// the handler needs of the session manager is declared in handler.Sessions.
//
// The examples in the contract are real answers. Each operation has at least one example in
// exchanges_test.go, and LMSERVE_UPDATE_EXAMPLES=1 makes the tests write it into the contract.
//
// A middleware is a file in package middleware and a line in newRouter (routes.go), in the order in
// which a request passes them.
//
// A problem type is a row in the contract's ProblemType and in problem.Kinds; problem.Of maps
// errors to it. A limit is a constant in package limits and a number in the contract, in x-limits
// or in its field's schema; a test compares the two.
package server
