package storage_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemoryIsAStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Backend {
		s := storage.NewMemory()
		return storetest.Backend{Open: func() (storage.Store, error) { return s, nil }}
	})
}
