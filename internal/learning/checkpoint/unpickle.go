package checkpoint

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/nlpodyssey/gopickle/pickle"
	"github.com/nlpodyssey/gopickle/types"
)

// unpickle reads one pickle, and returns the pickle's object. The function storages returns the
// object for a persistent id. If storages is nil, a persistent id is an error.
func unpickle(in *bufio.Reader, storages func(id []any) (any, error)) (object any, err error) {
	text, err := scanPickle(in, allowed)
	if err != nil {
		return nil, err
	}
	u := pickle.NewUnpickler(bytes.NewReader(text))
	u.FindClass = findClass
	u.PersistentLoad = func(id any) (any, error) {
		tuple, ok := id.(*types.Tuple)
		if !ok || storages == nil {
			return nil, malformed("persistent id", describe(id), "a tuple that names a storage")
		}
		return storages(*tuple)
	}
	// The pickle library may panic: it indexes slices without checks, and uses unhashable objects
	// as keys of maps.
	defer func() {
		if p := recover(); p != nil {
			err = malformed("pickle", brief(fmt.Sprint(p)), "a sound pickle")
		}
	}()
	object, err = u.Load()
	var ours *Error
	if err != nil && !errors.As(err, &ours) {
		err = malformed("pickle", brief(err.Error()), "a sound pickle")
	}
	return object, err
}

// brief shortens an error of the pickle library, which prints whole objects after a colon.
func brief(text string) string {
	text, _, _ = strings.Cut(text, ": ")
	return "an invalid pickle (" + strings.Trim(quote(text), `"`) + ")"
}

// storageID parses the persistent id of a storage: ("storage", class, key, location, elements,
// view). The location is a device. Only very old files have the last element, the view.
func storageID(id []any) (*storage, error) {
	where := "persistent id"
	if len(id) < 5 || len(id) > 6 || id[0] != "storage" {
		return nil, malformed(where, fmt.Sprintf("a tuple of %d", len(id)),
			`("storage", class, key, location, elements)`)
	}
	e, isElement := id[1].(element)
	key, isKey := id[2].(string)
	_, isLocation := id[3].(string)
	count, isCount := id[4].(int)
	if !isElement || !isKey || !isLocation || !isCount {
		return nil, malformed(where, fmt.Sprintf("(%s, %s, %s, %s)", describe(id[1]),
			describe(id[2]),
			describe(id[3]), describe(id[4])), "a class of storages, two strings and an integer")
	}
	if len(id) == 6 && id[5] != nil {
		return nil, unsupported(where, "a storage that is part of another storage",
			"a separate storage")
	}
	if count < 0 || int64(count) > weightsMax/int64(e.size) {
		return nil, malformed("storage "+quote(key), fmt.Sprintf("%d elements", count),
			fmt.Sprintf("0 to %d", weightsMax/int64(e.size)))
	}
	return &storage{key: key, element: e, count: int64(count)}, nil
}
