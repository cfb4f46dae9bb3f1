package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/cluster"
	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/postgres/pgtest"
)

func (p *place) reload(t *testing.T, sql string) {
	p.server.Exec(t, p.database, "alter system "+sql)
	p.server.Exec(t, p.database, "select pg_reload_conf()")
}

func TestReloadedSettingStopsWrites(t *testing.T) {
	p := newPlace(t, pgtest.New(t), folder(t))
	o := p.options()
	o.Node = "n"
	told := &reports{}
	o.Report = told.note
	s := p.started(t, o)
	renewed := func() { // PostgreSQL applies a reload with a delay
		_, _, err := s.Renew(t.Context(), cluster.Node{ID: "n"}, time.Minute)
		require.NoError(t, err)
	}
	renewed()
	epoch, err := s.Create(t.Context(), "a", nil, 0)
	require.NoError(t, err)
	var text string
	for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		end := int64(len(text))
		p.reload(t, "set "+setting+" = off")
		require.Eventually(t, func() bool {
			renewed()
			return s.SetHead(t.Context(), "a", epoch, nil) != nil
		}, time.Minute, 10*time.Millisecond, setting)
		err := s.Append(t.Context(), "a", epoch, end, record("one "))
		require.ErrorIs(t, err, storage.ErrUnavailable)
		require.NotErrorIs(t, err, storage.ErrUnknown)
		require.ErrorContains(t, err, setting+" = off, expected on")
		require.Equal(t, text, textOf(t, s, "a"), "reads go on")
		p.reload(t, "reset "+setting)
		require.Eventually(t, func() bool {
			renewed()
			return s.Append(t.Context(), "a", epoch, end, record("one ")) == nil
		}, time.Minute, 10*time.Millisecond, setting)
		text += "one "
	}
	require.Contains(t, told.all(), "writes are refused until the setting is on again")
}

// A store that was opened with Alone has no lease to renew. It must still check the settings of the
// database, and refuse writes after fsync was turned off.
func TestReloadedSettingStopsLoneStore(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	p := newPlace(t, pgtest.New(t), folder(t))
	o := p.options()
	o.Alone = true
	s := p.started(t, o)
	p.reload(t, "set fsync = off")
	require.Eventually(t, func() bool {
		_, err := s.Create(t.Context(), "b", nil, 0)
		return err != nil
	}, time.Minute, 100*time.Millisecond)
}

func TestConnectionWithCarelessSettingsWritesNothing(t *testing.T) {
	p := newPlace(t, pgtest.New(t), folder(t))
	s, epoch := p.single(t)
	p.server.Exec(t, p.database, "alter database "+p.database+" set synchronous_commit = off")
	require.NoError(t, s.Append(t.Context(), "a", epoch, 4, record("two ")),
		"the connection is older")
	p.proxy.Cut()
	require.Eventually(t, func() bool {
		_, err := s.Get(t.Context(), "a")
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	err := s.Append(t.Context(), "a", epoch, 8, record("three"))
	require.ErrorIs(t, err, storage.ErrUnavailable)
	require.ErrorContains(t, err, "synchronous_commit = off, expected on")
	p.server.Exec(t, p.database, "alter database "+p.database+" reset synchronous_commit")
	require.NoError(t, s.Append(t.Context(), "a", epoch, 8, record("three")))
}
