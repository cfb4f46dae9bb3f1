package ship

import (
	"os"
	"testing"

	"github.com/lmserve/lmserve/internal/e2e/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }
