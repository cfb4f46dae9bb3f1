package session

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// Resolve returns the id of the stored session that a text names, by id or by name, whoever owns
// it. If several owners have a session with the name, the error lists the ids. If no session has
// the text as its name, the text is taken for an id, which may belong to no session.
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
