// Package keys says who may use a server: bearer keys, the file that lists them (docs/formats.md), and the check of what a request brings.
// It knows nothing of HTTP.
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

// Limits of the file, and on what a key may be allowed.
const (
	FileBytesMax      = 16 << 20
	KeysMax           = 10_000
	NameCharsMax      = 64
	SessionsMax       = 1 << 20
	RequestsMax       = 1 << 16
	BytesPerSecondMax = 1 << 40
)

const (
	tokenPrefix = "lms_"
	idBytes     = 8  // of randomness in an id, which only has to be another one
	idChars     = 16 // hexadecimal
	secretBytes = 32 // of randomness in a secret
	secretChars = 43 // base64, URL-safe, without padding
	tokenChars  = len(tokenPrefix) + idChars + 1 + secretChars

	secretAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	nameAlphabet   = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._@+-"
	hexAlphabet    = "0123456789abcdef"
)

// Key is one key, without its secret.
type Key struct {
	ID      string
	Name    string
	Hash    [sha256.Size]byte // of the secret's characters
	Created time.Time         // UTC, as are the next two
	Expires time.Time         // from then on it is refused; zero: never
	Revoked time.Time         // since when it is refused; zero: it is not
	Admin   bool              // sees and may change the sessions of all keys
	Limits  Limits
}

// Limits are what one key is allowed. A field that is 0 stands for the server's default.
type Limits struct {
	Sessions       int   // live, 1..SessionsMax
	Requests       int   // at work at the same time, 1..RequestsMax
	BytesPerSecond int64 // of text, 1..BytesPerSecondMax
}

// New makes a key with an id of its own. The token is what its holder shows, and is kept nowhere else.
func New(name string, now time.Time) (k Key, token string) {
	var id [idBytes]byte
	var secret [secretBytes]byte
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the program instead
	_, _ = rand.Read(secret[:])
	text := base64.RawURLEncoding.EncodeToString(secret[:])
	k = Key{ID: hex.EncodeToString(id[:]), Name: name, Hash: sha256.Sum256([]byte(text)), Created: now.UTC().Truncate(time.Second)}
	return k, tokenPrefix + k.ID + "_" + text
}

// Status of a key at a time: "active", "expired" or "revoked".
func (k Key) Status(now time.Time) string {
	switch {
	case !k.Revoked.IsZero():
		return "revoked"
	case !k.Expires.IsZero() && !now.Before(k.Expires):
		return "expired"
	}
	return "active"
}

// splitToken takes a token apart; it reports whether it has the form of one.
func splitToken(token string) (id, secret string, ok bool) {
	if len(token) != tokenChars || !strings.HasPrefix(token, tokenPrefix) {
		return "", "", false
	}
	id, secret = token[len(tokenPrefix):][:idChars], token[tokenChars-secretChars:]
	ok = isID(id) && token[tokenChars-secretChars-1] == '_' && consistsOf(secret, secretAlphabet)
	return id, secret, ok
}

func isID(s string) bool { return len(s) == idChars && consistsOf(s, hexAlphabet) }

func consistsOf(s, alphabet string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !strings.ContainsRune(alphabet, r) }) < 0
}

// CheckName says what is wrong with a name, or "".
func CheckName(name string) string {
	switch {
	case len(name) < 1 || len(name) > NameCharsMax || !consistsOf(name, nameAlphabet):
		return fmt.Sprintf("a name of 1 to %d letters, digits or . _ @ + -", NameCharsMax)
	case isID(name):
		return "a name that cannot be taken for an id"
	}
	return ""
}

// Find gives the index of the key with this id, or of the key with this name that is not revoked, or failing that the one revoked last; -1 if
// there is none.
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

// Add gives the list with one more key, or says why that cannot be.
func Add(list []Key, k Key) ([]Key, error) {
	if want := CheckName(k.Name); want != "" {
		return nil, fmt.Errorf("keys: name: found %q, expected %s", k.Name, want)
	}
	if i := Find(list, k.Name); i >= 0 && list[i].Revoked.IsZero() {
		return nil, fmt.Errorf("keys: name: found %q, which key %s has; expected a new one, or revoke that key first", k.Name, list[i].ID)
	}
	if len(list) >= KeysMax {
		return nil, fmt.Errorf("keys: found %d keys, expected at most %d with the new one", len(list), KeysMax)
	}
	return append(slices.Clone(list), k), nil
}

// Revoke gives the list with one key revoked, and the key, or says why that cannot be.
func Revoke(list []Key, idOrName string, now time.Time) ([]Key, Key, error) {
	i := Find(list, idOrName)
	if i < 0 {
		return nil, Key{}, fmt.Errorf("keys: found no key with the id or name %q among %d", idOrName, len(list))
	}
	if k := list[i]; !k.Revoked.IsZero() {
		return nil, Key{}, fmt.Errorf("keys: key %s (%s) was revoked at %s already", k.ID, k.Name, k.Revoked.Format(time.RFC3339))
	}
	list = slices.Clone(list)
	list[i].Revoked = now.UTC().Truncate(time.Second)
	return list, list[i], nil
}
