package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/storage/postgres"
	"github.com/lmserve/lmserve/internal/serving/storage/postgres/pgtest"
)

func TestKeysAreInTheDatabase(t *testing.T) {
	server := pgtest.New(t)
	url := server.URL(server.Database(t))
	_, err := postgres.ReadKeys(t.Context(), url)
	require.ErrorAs(t, err, new(*postgres.SchemaError))
	_, _, err = postgres.Migrate(t.Context(), url)
	require.NoError(t, err)
	text, err := postgres.ReadKeys(t.Context(), url)
	require.NoError(t, err)
	require.Nil(t, text)
	no := errors.New("no")
	err = postgres.UpdateKeys(t.Context(), url, func([]byte) ([]byte, error) { return nil, no })
	require.Equal(t, no, err)

	ctx, stop := context.WithCancel(t.Context())
	var following sync.WaitGroup
	told := make(chan string, 100)
	following.Go(func() {
		postgres.FollowKeys(ctx, url, time.Millisecond, nil,
			func(text []byte) error {
				told <- string(text)
				return nil
			})
	})
	var all sync.WaitGroup
	for n := range 5 { // Concurrent updates must not lose a change.
		all.Go(func() {
			err := postgres.UpdateKeys(t.Context(), url, func(text []byte) ([]byte, error) {
				return fmt.Append(text, n), nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	text, err = postgres.ReadKeys(t.Context(), url)
	require.NoError(t, err)
	require.ElementsMatch(t, []byte("01234"), text)
	for last := ""; last != string(text); {
		last = <-told
	}
	server.Kill()
	require.NoError(t, server.Start())
	err = postgres.UpdateKeys(t.Context(), url, func([]byte) ([]byte, error) {
		return []byte("new"),
			nil
	})
	require.NoError(t, err)
	require.Equal(t, "new", <-told, "it goes on with the database")
	stop()
	following.Wait()
}

// The disk of a server may be full when a key is revoked.
func TestChangeOfKeysIsToldUntilAccepted(t *testing.T) {
	server := pgtest.Shared(t)
	url := server.URL(server.Database(t))
	_, _, err := postgres.Migrate(t.Context(), url)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	told := 0
	err = postgres.UpdateKeys(t.Context(), url, func([]byte) ([]byte, error) {
		return []byte("new"), nil
	})
	require.NoError(t, err)
	postgres.FollowKeys(ctx, url, time.Millisecond, nil, func(text []byte) error {
		require.Equal(t, "new", string(text))
		if told++; told < 3 {
			return errors.New("the disk is full")
		}
		time.AfterFunc(time.Second, stop)
		return nil
	})
	require.Equal(t, 3, told)
}
