package sessionlog_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/sessionlog/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemoryIsAStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Backend {
		s := sessionlog.NewMemory()
		return storetest.Backend{Open: func() (sessionlog.Store, error) { return s, nil }}
	})
}
