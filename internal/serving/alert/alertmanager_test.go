package alert

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func alertmanagerAt(t *testing.T) (url string) {
	program := ""
	for _, name := range []string{"alertmanager", "prometheus-alertmanager"} {
		if found, err := exec.LookPath(name); err == nil {
			program = found
		}
	}
	if program == "" {
		t.Skip("Alertmanager is not installed")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yml")
	require.NoError(t, os.WriteFile(config,
		[]byte("route: {receiver: none}\nreceivers: [{name: none}]\n"), 0o600))
	ctx, cancel := context.WithCancel(context.Background())
	run := exec.CommandContext(ctx, program, "--config.file="+config, "--storage.path="+dir,
		"--web.listen-address="+address, "--cluster.listen-address=")
	require.NoError(t, run.Start())
	t.Cleanup(func() {
		cancel()
		_ = run.Wait()
		httpClient.CloseIdleConnections()
	})
	return "http://" + address
}

func alertsAt(t require.TestingT, url string) (all []postable) {
	answer, err := httpClient.Get(url + "/api/v2/alerts")
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&all))
	return all
}

func TestAlertmanagerTakesAlerts(t *testing.T) {
	c := &account{}
	url := alertmanagerAt(t)
	r := receiver(t, "alertmanager:"+url)
	r.every = 20 * time.Millisecond
	n := start(t, c, "", r)
	n.Incident(web, "app.log", incident(1), nil)
	var got []postable
	require.Eventually(t, func() bool {
		got = alertsAt(t, url)
		return len(got) == 1
	}, time.Minute, 10*time.Millisecond)
	labels := got[0].Labels
	require.Equal(t, "LmserveIncident", labels["alertname"])
	require.Equal(t, "web", labels["session_name"])
	require.Equal(t, "shop", labels["team"])
	require.Equal(t, "GET /1 HTTP 502", got[0].Annotations["description"])
	require.Equal(t, "1/2000", got[0].Annotations["rank"])
	first := got[0].Ends
	require.Eventually(t, func() bool {
		all := alertsAt(t, url)
		return len(all) == 1 && all[0].Ends.After(first)
	}, time.Minute, 10*time.Millisecond, "it is reminded")
	n.Incident(web, "app.log", closed(incident(1)), nil)
	none := func() bool { return len(alertsAt(t, url)) == 0 }
	require.Eventually(t, none, time.Minute, 10*time.Millisecond)
	require.Zero(t, n.Close(time.Minute))
	require.Equal(t, 2, c.count("alertmanager sent"))
	require.Zero(t, c.count("alertmanager refused"))
}

func TestBodyIsThatOfAlertmanagersAPI(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	a := ofIncident(web, "app.log", "id", incident(1), nil, now)
	text, err := json.Marshal(a.postable(now))
	require.NoError(t, err)
	var body map[string]any
	require.NoError(t, json.Unmarshal(text, &body))
	require.Len(t, body, 4)
	require.Equal(t, "2026-11-27T12:00:00Z", body["startsAt"])
	require.Equal(t, "2026-11-27T12:05:00Z", body["endsAt"])
	for _, field := range []string{"labels", "annotations"} {
		for name, value := range body[field].(map[string]any) {
			require.Regexp(t, labelName, name)
			require.NotEmpty(t, value)
		}
	}
	resolved := a.resolved(now.Add(time.Minute))
	require.Equal(t, a.postable(now).Labels, resolved.postable(now).Labels, "it is the same alert")
	require.Equal(t, now.Add(time.Minute), resolved.postable(now).Ends)
}
