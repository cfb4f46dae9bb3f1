// Package crash tests that no confirmed data is lost: it kills servers and exports during all kinds
// of work, and cuts the power.
package crash
