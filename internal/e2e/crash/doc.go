// Package crash tests that no confirmed data is lost. The tests kill servers and exports during all
// kinds of work, and simulate power cuts.
package crash
