// Package memory tests the memory use of servers, and measures the cost of long streams and large
// files.
package memory
