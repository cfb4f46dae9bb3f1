package keys

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/lmserve/lmserve/internal/serving/reload"
)

// Reasons to refuse a token. Only a client with the right secret gets ErrExpired or ErrRevoked.
var (
	ErrMalformed = errors.New("keys: malformed key")
	ErrUnknown   = errors.New("keys: unknown key") // an id that does not exist, or the wrong secret
	ErrExpired   = errors.New("keys: the key has expired")
	ErrRevoked   = errors.New("keys: the key was revoked")
)

// Ring has the keys of a running server, and follows changes of the keys file. Its methods are safe
// for concurrent use.
type Ring struct {
	file *reload.Value[map[string]Key] // keys by id; the map is nil until the file first exists
}

// OpenRing reads a keys file. If the file is missing, the Ring has no keys until the file is
// created. After each change of the file, the Ring calls report with nil, or with the error that
// prevents the change. report must not call the Ring, which is locked then.
func OpenRing(path string, report func(error)) (*Ring, error) {
	known := false
	read := func() (map[string]Key, error) {
		list, err := ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) && !known {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("keys: %w", err)
		}
		known = true
		byID := make(map[string]Key, len(list))
		for _, k := range list {
			byID[k.ID] = k
		}
		return byID, nil
	}
	file, err := reload.New(read, report, path)
	if err != nil {
		return nil, err
	}
	return &Ring{file}, nil
}

// Required reports whether requests need a key. It stays true once a keys file has been read, even
// if the file is removed.
func (r *Ring) Required() bool {
	byID, _ := r.file.Get()
	return byID != nil
}

// Stale returns the error that prevents reading the current keys file, or nil if the keys are
// current.
func (r *Ring) Stale() error {
	_, err := r.file.Get()
	return err
}

// Authenticate returns the key of a token. Its running time does not reveal how much of a secret is
// right. For a well-formed token, the time also does not reveal whether the token's id exists.
func (r *Ring) Authenticate(token string) (Key, error) {
	id, secret, ok := splitToken(token)
	if !ok {
		return Key{}, ErrMalformed
	}
	byID, _ := r.file.Get()
	k, exists := byID[id] // an unknown id gives the zero Key, whose hash matches no secret
	hash := sha256.Sum256([]byte(secret))
	if subtle.ConstantTimeCompare(hash[:], k.Hash[:]) != 1 || !exists {
		return Key{}, ErrUnknown
	}
	return k, refusal(k)
}

// Check returns nil if an authenticated key is still valid, else the reason.
func (r *Ring) Check(id string) error {
	byID, _ := r.file.Get()
	k, exists := byID[id]
	if !exists {
		return ErrUnknown
	}
	return refusal(k)
}

const holdEvery = 500 * time.Millisecond

// Hold returns a context that is canceled within two seconds after an authenticated key becomes
// invalid. The context's cause is then the error of Check. release stops the checks.
func (r *Ring) Hold(ctx context.Context, id string) (held context.Context, release func()) {
	held, cancel := context.WithCancelCause(ctx)
	go func() {
		look := time.NewTicker(holdEvery)
		defer look.Stop()
		for {
			select {
			case <-held.Done():
				return
			case <-look.C:
				if err := r.Check(id); err != nil {
					cancel(err)
					return
				}
			}
		}
	}()
	return held, func() { cancel(nil) }
}

func refusal(k Key) error {
	switch k.Status(time.Now()) {
	case "revoked":
		return ErrRevoked
	case "expired":
		return ErrExpired
	}
	return nil
}
