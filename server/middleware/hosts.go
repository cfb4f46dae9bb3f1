package middleware

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/problem"
)

// Hosts refuses requests that a browser sends for a foreign page. A foreign page has no key, so
// Hosts checks only servers without keys and servers with configured names.
//
// The request's Host must name this server, with any port: a loopback name or address, the address
// of the connection, an allowed name, or the name that Kubernetes gives the service of an allowed
// name. A page that uses DNS rebinding sends the page's own name. The request's Origin must have
// the same host and port as Host, have an allowed host name, or be in the parameter origins.
// http.CrossOriginProtection would pass every GET, but this server's exports are GETs.
func Hosts(
	ring *keys.Ring, allowed, origins []string, problems *answer.Problems,
) func(http.Handler) http.Handler {
	return wrap(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if len(allowed) > 0 || ring == nil || !ring.Required() {
			if p := checkHosts(r, allowed, origins); p != nil {
				problems.Answer(w, r, p)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// checkHosts checks a request's Host and Origin against the server's names; nil if they fit.
// Clients other than browsers send no Origin, and HTTP/1.0 clients may send no Host. No page can
// make a browser omit them.
func checkHosts(r *http.Request, allowed, origins []string) *problem.Problem {
	host := hostName(r.Host)
	if host != "" && !isLoopback(host) && !isLocalAddress(r, host) && !isAllowed(host, allowed) &&
		!isService(host, allowed) {
		return problem.Field(api.ProblemHostNotAllowed, "Host", problem.Quoted(r.Host),
			"a name or address of this machine, or a host given with --allow-host")
	}
	origin := r.Header.Get("Origin")
	site := r.Header.Get("Sec-Fetch-Site")
	from, err := url.Parse(origin)
	switch {
	case isNamed(origin, origins):
		return nil
	case origin != "" && err == nil && from.Host != "" && isAllowed(hostName(from.Host), allowed):
		return nil
	case origin != "" && (err != nil || !strings.EqualFold(from.Host, r.Host)):
		return problem.Field(api.ProblemOriginNotAllowed, "Origin", problem.Quoted(origin),
			"no origin, this server's origin, or an origin given with --cors-origin or "+
				"--allow-host")
	case site != "" && site != "same-origin" && site != "none":
		return problem.Field(api.ProblemOriginNotAllowed, "Sec-Fetch-Site", problem.Quoted(site),
			"same-origin or none")
	}
	return nil
}

// hostName returns the host of an authority, without the port and a final dot.
func hostName(authority string) string {
	host, _, err := net.SplitHostPort(authority)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(authority, "["), "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// isLoopback reports whether host always means this machine.
func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// isLocalAddress reports whether host is the local address of the request's connection.
func isLocalAddress(r *http.Request, host string) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	addr, err := netip.ParseAddr(host)
	return err == nil && local != nil && addr.Unmap() == local.AddrPort().Addr().Unmap()
}

// isService reports whether Kubernetes gives this name to the service of an allowed name without
// dots: NAME.NAMESPACE, NAME.NAMESPACE.svc or NAME.NAMESPACE.svc.cluster.local. No page can have
// such a name, because nobody can register domains below svc or local. NAME.NAMESPACE is refused if
// the namespace is also a public suffix such as dev, or local: by multicast DNS (RFC 6762), every
// device in the network can take the name NAME.local.
func isService(host string, names []string) bool {
	name, rest, _ := strings.Cut(host, ".")
	namespace, zone, full := strings.Cut(rest, ".")
	if name == "" || namespace == "" || !isAllowed(name, names) {
		return false
	}
	if full {
		return zone == "svc" || zone == "svc.cluster.local"
	}
	_, registered := publicsuffix.PublicSuffix(namespace)
	return !registered && namespace != "local"
}

func isAllowed(host string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return hostName(name) == host })
}
