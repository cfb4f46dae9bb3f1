// Package cluster tests servers that share a database. The servers, the network, the database and
// the object store suffer faults.
package cluster
