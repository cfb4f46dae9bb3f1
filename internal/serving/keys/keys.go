// Package keys authenticates clients by bearer keys. It reads and writes the keys file
// (docs/formats.md), and checks the tokens of requests. It does not depend on HTTP.
package keys

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limits of the keys file, and the largest limits that a key can have.
const (
	FileBytesMax      = 16 << 20
	KeysMax           = 10_000
	NameCharsMax      = 64
	SessionsMax       = 1 << 20
	RequestsMax       = 1 << 16
	BytesPerSecondMax = 1 << 40
	DiskMax           = 1 << 50
)

const (
	tokenPrefix = "lms_"
	idBytes     = 8 // random bytes in an id, which is not secret and only has to be unique
	idChars     = 16
	secretBytes = 32
	secretChars = 43 // characters of a secret: URL-safe base64 without padding
	tokenChars  = len(tokenPrefix) + idChars + 1 + secretChars

	secretAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	nameAlphabet   = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._@+-"
	hexAlphabet    = "0123456789abcdef"
)

// Key is an access key, without its secret.
type Key struct {
	ID      string
	Name    string
	Hash    [sha256.Size]byte // SHA-256 of the secret's characters
	Created time.Time         // UTC, like Expires and Revoked
	Expires time.Time         // the key is refused from this time on; zero if it never expires
	Revoked time.Time         // when the key was revoked; zero if it was not
	Admin   bool              // the key may see and change the sessions of all keys
	Limits  Limits
}

// Limits are the limits of one key. A field that is 0 means the server's default.
type Limits struct {
	// Maximum number of live sessions, 1..SessionsMax.
	Sessions int `json:"sessions,omitempty"`
	// Maximum number of concurrent requests, 1..RequestsMax.
	Requests int `json:"requests,omitempty"`
	// Maximum number of bytes of text per second, 1..BytesPerSecondMax.
	BytesPerSecond int64 `json:"bytes_per_second,omitempty"`
	// Maximum disk space of the key's sessions, in bytes, 1..DiskMax.
	Disk int64 `json:"disk,omitempty"`
}

// New makes a key with a random id and a random secret. Clients send the token, which contains id
// and secret. The key contains only a hash of the secret.
func New(name string, now time.Time) (k Key, token string) {
	var id [idBytes]byte
	var secret [secretBytes]byte
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the program instead
	_, _ = rand.Read(secret[:])
	text := base64.RawURLEncoding.EncodeToString(secret[:])
	k = Key{ID: hex.EncodeToString(id[:]), Name: name, Hash: sha256.Sum256([]byte(text)),
		Created: now.UTC().Truncate(time.Second)}
	return k, tokenPrefix + k.ID + "_" + text
}

// Status returns a key's state at a time: "active", "expired" or "revoked".
func (k Key) Status(now time.Time) string {
	switch {
	case !k.Revoked.IsZero():
		return "revoked"
	case !k.Expires.IsZero() && !now.Before(k.Expires):
		return "expired"
	}
	return "active"
}

func splitToken(token string) (id, secret string, ok bool) {
	if len(token) != tokenChars || !strings.HasPrefix(token, tokenPrefix) {
		return "", "", false
	}
	id, secret = token[len(tokenPrefix):][:idChars], token[tokenChars-secretChars:]
	ok = isID(id) && token[tokenChars-secretChars-1] == '_' && consistsOf(secret, secretAlphabet)
	return id, secret, ok
}

func isID(s string) bool { return len(s) == idChars && consistsOf(s, hexAlphabet) }

func consistsOf(s, alphabet string) bool { return strings.Trim(s, alphabet) == "" }

// CheckName returns "" for a valid name. Else it returns what was expected.
func CheckName(name string) string {
	switch {
	case len(name) < 1 || len(name) > NameCharsMax || !consistsOf(name, nameAlphabet):
		return fmt.Sprintf("a name of 1 to %d letters, digits or . _ @ + -", NameCharsMax)
	case isID(name):
		return "a name that does not look like an id"
	}
	return ""
}

// Find returns the index of the key that has this id, or that has this name and is not revoked. If
// all keys with the name are revoked, Find returns the key that was revoked last. It returns -1 if
// no key has the id or name.
func Find(list []Key, idOrName string) int {
	found := -1
	for i, k := range list {
		if k.ID == idOrName || k.Name == idOrName && k.Revoked.IsZero() {
			return i
		}
		if k.Name == idOrName && (found < 0 || k.Revoked.After(list[found].Revoked)) {
			found = i
		}
	}
	return found
}

// Add returns the list with one more key. It fails if the name is invalid or in use.
func Add(list []Key, k Key) ([]Key, error) {
	if want := CheckName(k.Name); want != "" {
		return nil, fmt.Errorf("keys: name: found %q, expected %s", k.Name, want)
	}
	if i := Find(list, k.Name); i >= 0 && list[i].Revoked.IsZero() {
		return nil, fmt.Errorf("keys: name: found %q, the name of key %s; expected an unused "+
			"name, or revoke that key first", k.Name, list[i].ID)
	}
	if len(list) >= KeysMax {
		return nil, fmt.Errorf("keys: no key was added: the list already has %d keys, and the "+
			"maximum is %d",
			len(list), KeysMax)
	}
	return append(slices.Clone(list), k), nil
}

// Revoke returns the list with one key revoked, and the revoked key. It fails if no active key has
// this id or name.
func Revoke(list []Key, idOrName string, now time.Time) ([]Key, Key, error) {
	i := Find(list, idOrName)
	if i < 0 {
		return nil, Key{}, fmt.Errorf("keys: no key has the id or name %q; the list has %d keys",
			idOrName, len(list))
	}
	if k := list[i]; !k.Revoked.IsZero() {
		return nil, Key{}, fmt.Errorf("keys: key %s (%s) was already revoked at %s", k.ID, k.Name,
			k.Revoked.Format(time.RFC3339))
	}
	list = slices.Clone(list)
	list[i].Revoked = now.UTC().Truncate(time.Second)
	return list, list[i], nil
}
