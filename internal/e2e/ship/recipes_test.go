package ship

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The route score answers 429 to a busy session, 503 while the server shuts down, and 507 while the
// disk is full. Shippers that retry only after listed statuses must retry after all three.
func TestRecipesRetryWhileServerRefuses(t *testing.T) {
	page := shipPage(t)
	for _, list := range []string{`retryable_codes => \[(.+)\]`, `response-action\((.+)\)`} {
		codes := regexp.MustCompile(list).FindStringSubmatch(page)
		require.NotNil(t, codes, "docs/ship.md shows %s", list)
		for _, code := range []string{"429", "503", "507"} {
			require.Contains(t, codes[1], code)
		}
	}
}

// rsyslog's own templates have names that begin with RSYSLOG_.
func TestRsyslogTemplatePrecedesItsAction(t *testing.T) {
	_, recipe, found := strings.Cut(shipPage(t), "\n## rsyslog\n")
	require.True(t, found)
	used := regexp.MustCompile(`(?s)action\(.*\btemplate="(\w+)"`).FindStringSubmatch(recipe)
	require.NotNil(t, used)
	require.NotContains(t, used[1], "RSYSLOG_")
	before, _, _ := strings.Cut(recipe, "action(")
	require.Contains(t, before, `template(name="`+used[1]+`"`)
}

func shipPage(t *testing.T) string {
	page, err := os.ReadFile("../../../docs/ship.md")
	require.NoError(t, err)
	return string(page)
}
