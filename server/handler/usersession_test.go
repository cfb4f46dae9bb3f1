package handler

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/server/limits"
)

func TestRememberedUsersAreLimited(t *testing.T) {
	var u users
	for i := range limits.UsersRememberedMax + 1 {
		u.remember(userName{user: fmt.Sprint(i)}, "id")
	}
	require.LessOrEqual(t, len(u.mu.byName), limits.UsersRememberedMax)
	require.Equal(t, "id", u.mu.byName[userName{user: fmt.Sprint(limits.UsersRememberedMax)}])
}
