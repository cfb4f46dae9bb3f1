// Package tracing shows where requests spend their time. It makes an OpenTelemetry span for each
// request, and for each phase of the request's work. It makes spans only if environment variables
// enable them.
package tracing

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/lmserve/lmserve/internal/serving/session"
)

// PhasesMax is the maximum number of phases of one request that get a span. A request may have a
// hundred thousand chunks of text, each with several phases. A viewer of traces cannot show that
// many spans.
const PhasesMax = 1024

var unTraced = []string{"/healthz", "/readyz", "/metrics"}

// Tracer makes spans for requests and their phases. A nil *Tracer makes none. All methods are safe
// for concurrent use.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// New makes a Tracer that sends its spans to an exporter.
func New(ctx context.Context, to sdk.SpanExporter, version string) (*Tracer, error) {
	of, err := resource.New(ctx,
		resource.WithAttributes(
			attribute.String("service.name", "lmserve"), attribute.String("service.version",
				version),
		),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv(), // last, so that the environment overrides the attributes above
	)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(to), sdk.WithResource(of))
	return &Tracer{provider, provider.Tracer("github.com/lmserve/lmserve")}, nil
}

// Close sends the remaining spans, and ends the Tracer. If the context ends, it stops sending.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// phasesKey is a key in the context of a request. Its value is an *atomic.Int64, the number of
// phases that may still get a span.
type phasesKey struct{}

// Around makes a span for each request. If the request's W3C headers name a trace, the span belongs
// to that trace.
func (t *Tracer) Around(next http.Handler) http.Handler {
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		left := new(atomic.Int64)
		left.Store(PhasesMax)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), phasesKey{}, left)))
	})
	return otelhttp.NewHandler(counted, "request",
		otelhttp.WithTracerProvider(t.provider),
		otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithFilter(func(r *http.Request) bool {
			return !slices.Contains(unTraced, r.URL.Path)
		}),
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return r.Method }),
	)
}

// RequestEnded sets the name of a request's span to its route, which is not known when the span
// begins.
func (t *Tracer) RequestEnded(ctx context.Context, route, method string) {
	if t == nil {
		return
	}
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	if route != "" {
		span.SetName(method + " " + route)
		span.SetAttributes(attribute.String("http.route", route))
	}
	if left, ok := ctx.Value(phasesKey{}).(*atomic.Int64); ok && left.Load() < 0 {
		span.SetAttributes(attribute.Int64("lmserve.phases_left_out", -left.Load()))
	}
}

// Phase makes a span for a phase of a traced request.
func (t *Tracer) Phase(ctx context.Context, p session.Phase, began, ended time.Time) {
	if t == nil || !trace.SpanFromContext(ctx).IsRecording() {
		return
	}
	if left, ok := ctx.Value(phasesKey{}).(*atomic.Int64); ok && left.Add(-1) < 0 {
		return
	}
	_, span := t.tracer.Start(ctx, p.String(), trace.WithTimestamp(began))
	span.End(trace.WithTimestamp(ended))
}
