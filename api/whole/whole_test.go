package whole

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExtensionsArePartsOfTheirBlocks(t *testing.T) {
	const contract = `paths:
  /a:
    post:
      requestBody:
        content:
          text/plain: {}
        x-server-content:
          application/json: {}
      responses:
        "200":
          content:
            text/event-stream:
              x-server-examples:
                one: {}
x-server-paths:
  /b: {}
`
	require.Equal(t, `paths:
  /a:
    post:
      requestBody:
        content:
          text/plain: {}
          application/json: {}
      responses:
        "200":
          content:
            text/event-stream:
              examples:
                one: {}
  /b: {}
`, string(Of([]byte(contract))))
}
