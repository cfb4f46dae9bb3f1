// Package memory tests what servers take of their memory, and measures what long streams and large
// files cost.
package memory
