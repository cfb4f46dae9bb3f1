package whole

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Extensions go on in the block before them, and the examples of streams are examples.
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
