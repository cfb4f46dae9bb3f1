package keys

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/lmserve/lmserve/internal/reload"
)

// Why a token is refused. A caller who is told one of the last two has shown the right secret.
var (
	ErrMalformed = errors.New("keys: not of the form of a key")
	ErrUnknown   = errors.New("keys: unknown key") // an id that does not exist, or the wrong secret
	ErrExpired   = errors.New("keys: the key has expired")
	ErrRevoked   = errors.New("keys: the key was revoked")
)

// Ring is the keys of a running server, as their file has them at any moment. All its methods may be called at once.
type Ring struct {
	file *reload.Value[map[string]Key] // by id; nil: there was no file yet
}

// OpenRing reads a keys file. Without a file there are no keys, until one appears. report is told of later changes of the file: nil when they are
// in force, otherwise why they are not; it must not call the Ring.
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

// Required says whether there is a keys file: whether a request needs a key. Once it is true it stays so.
func (r *Ring) Required() bool {
	byID, _ := r.file.Get()
	return byID != nil
}

// Stale says why the keys in force are not those of the file, nil if they are.
func (r *Ring) Stale() error {
	_, err := r.file.Get()
	return err
}

// Authenticate finds the key that a token shows. The time it takes does not tell how much of a secret is right, nor, for a token of the right
// form, whether its id exists.
func (r *Ring) Authenticate(token string) (Key, error) {
	id, secret, ok := splitToken(token)
	if !ok {
		return Key{}, ErrMalformed
	}
	byID, _ := r.file.Get()
	k, exists := byID[id] // if not, its hash is one that no secret has
	hash := sha256.Sum256([]byte(secret))
	if subtle.ConstantTimeCompare(hash[:], k.Hash[:]) != 1 || !exists {
		return Key{}, ErrUnknown
	}
	return k, refusal(k)
}

// Check says whether a key that was authenticated before is still good.
func (r *Ring) Check(id string) error {
	byID, _ := r.file.Get()
	k, exists := byID[id]
	if !exists {
		return ErrUnknown
	}
	return refusal(k)
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
