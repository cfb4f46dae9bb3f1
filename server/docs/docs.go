// Package docs makes a page of the contract that a person can read.
package docs

// Page is the page.
func Page() ([]byte, string, error) { return []byte("<!doctype html>\n"), "default-src 'none'", nil }
