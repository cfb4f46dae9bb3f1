// Package crash tests that nothing that was confirmed is lost: servers and exports are killed in
// all that they do, and the power is cut.
package crash
