package metrics

import "github.com/prometheus/client_golang/prometheus"

// sharing counts events among servers that share a store.
type sharing struct{ claims, takeovers, fenced, proxied prometheus.Counter }

func newSharing(mk maker) sharing {
	return sharing{
		claims: mk.counter("claims_total",
			"Number of claims on sessions in the store; the server claims a session when it "+
				"begins to use the session."),
		takeovers: mk.counter("takeovers_total",
			"Number of sessions claimed from a server whose lease had lapsed."),
		fenced: mk.counter("fenced_writes_total",
			"Number of writes refused because another server had claimed the session, "+
				"and of writes whose outcome is unknown."),
		proxied: mk.counter("proxied_requests_total",
			"Number of requests forwarded to another server."),
	}
}

// Among adds a metric for the number of servers that share the sessions, as far as this server
// knows.
func (m *Metrics) Among(servers func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Name: "servers",
		Help: "Number of servers with a lease that share the sessions, including this server; " +
			"only with --advertise.",
	}, func() float64 { return float64(servers()) }))
}

// Claimed implements session.Observer.
func (s *sharing) Claimed(taken bool) {
	s.claims.Inc()
	if taken {
		s.takeovers.Inc()
	}
}

// Fenced implements session.Observer.
func (s *sharing) Fenced() { s.fenced.Inc() }

// Proxied counts a request that is forwarded to another server.
func (s *sharing) Proxied() { s.proxied.Inc() }
