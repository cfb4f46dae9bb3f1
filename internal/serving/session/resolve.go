package session

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// Resolve returns the id of the stored session with the given name, whoever owns it. If sessions of
// several owners have this name, the error lists their ids. If no session has this name, Resolve
// returns the text itself as the id, without checking that such a session exists.
func Resolve(ctx context.Context, store storage.Store, text string) (id string, err error) {
	if CheckName(text) != nil {
		return text, nil
	}
	var ids, whose []string
	err = storage.Each(ctx, store, func(found storage.Session) error {
		if k := readStored(nil, found); k.Name == text && !slices.Contains(whose, k.Owner) {
			ids, whose = append(ids, k.ID), append(whose, k.Owner)
		}
		return nil
	})
	switch {
	case err != nil:
		return "", err
	case len(ids) == 0:
		return text, nil
	case len(ids) > 1:
		return "",
			fmt.Errorf("session: %d sessions of different owners have the name %q; use one of "+
				"their ids: %s", len(ids), text, strings.Join(ids, ", "))
	}
	return ids[0], nil
}
