// Package check compares the dashboard and the alert rules with the metrics of a running service. It is a module of its own, because it needs the
// parsers of Prometheus.
package check_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/otelholdfast"
)

// scraped returns the names of the series that a service exposes, with their labels. Before that, the service has held and lost a lock, waited for a
// lock, and led an election.
func scraped(t *testing.T) map[string]map[string]bool {
	t.Helper()
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	require.NoError(t, err)
	meters := metric.NewMeterProvider(metric.WithReader(exporter))
	server := holdfasttest.New(t)
	waiting, stop := context.WithCancel(t.Context())
	trace := otelholdfast.Trace(otelholdfast.WithMeterProvider(meters))
	slow := trace.Waiting
	trace.Waiting = func(ctx context.Context, w holdfast.Waiting) {
		slow(ctx, w)
		stop()
	}
	rt := server.Runtime(holdfast.Options{Lease: 300 * time.Millisecond, SlowWait: time.Millisecond, Trace: trace})
	registration, err := otelholdfast.Observe(rt, otelholdfast.WithMeterProvider(meters))
	require.NoError(t, err)
	defer func() { assert.NoError(t, registration.Unregister()) }()
	lease, err := rt.Lock("orders").Acquire(t.Context())
	require.NoError(t, err)
	_, err = rt.Lock("orders").Acquire(waiting)
	require.ErrorIs(t, err, context.Canceled)
	server.Lose("orders")
	<-lease.Done()
	election := rt.Election("reports", holdfast.ElectionOptions{})
	require.NoError(t, election.Run(t.Context(), func(context.Context, holdfast.Term) error { return holdfast.ErrResign }))
	require.NoError(t, rt.Close(t.Context())) // after Close, everything has been recorded

	page := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer page.Close()
	response, err := http.Get(page.URL)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text := expfmt.NewTextParser(model.UTF8Validation)
	families, err := text.TextToMetricFamilies(response.Body)
	require.NoError(t, err)
	series := map[string]map[string]bool{}
	for name, family := range families {
		labels := map[string]bool{"job": true, "instance": true} // Prometheus adds these when it scrapes
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = true
			}
		}
		series[name] = labels
		if len(family.GetMetric()) > 0 && family.GetMetric()[0].GetHistogram() != nil {
			bucket := map[string]bool{"le": true}
			for label := range labels {
				bucket[label] = true
			}
			series[name+"_bucket"], series[name+"_count"], series[name+"_sum"] = bucket, labels, labels
		}
	}
	return series
}

// checkExpression checks that an expression parses, and names only series and labels that exist.
func checkExpression(t *testing.T, series map[string]map[string]bool, expression string) {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	require.NoError(t, err, expression)
	selectors := 0
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			selectors++
			labels := series[n.Name]
			assert.NotNil(t, labels, "%s is not exposed: %s", n.Name, expression)
			for _, m := range n.LabelMatchers {
				assert.True(t, m.Name == model.MetricNameLabel || labels[m.Name], "%s has no label %s: %s", n.Name, m.Name, expression)
			}
		case *parser.AggregateExpr:
			for _, label := range n.Grouping {
				assert.True(t, anyHas(series, label), "no series has a label %s: %s", label, expression)
			}
		}
		return nil
	})
	assert.Positive(t, selectors, expression)
}

func anyHas(series map[string]map[string]bool, label string) bool {
	for _, labels := range series {
		if labels[label] {
			return true
		}
	}
	return false
}

func TestAlerts_NameWhatExists(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../dashboards/alerts.yaml")
	require.NoError(t, err)
	groups, errs := rulefmt.Parse(text, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	require.Empty(t, errs)
	series := scraped(t)
	telemetry, err := os.ReadFile("../../doc/telemetry.md")
	require.NoError(t, err)
	for _, rule := range groups.Groups[0].Rules {
		checkExpression(t, series, rule.Expr)
		assert.NotEmpty(t, rule.Annotations["summary"])
		assert.Contains(t, string(telemetry), "`"+rule.Alert+"`", "what it means and what to do")
	}
	for name := range series {
		if strings.HasPrefix(name, "holdfast_") && !strings.HasSuffix(name, "_bucket") && !strings.HasSuffix(name, "_count") && !strings.HasSuffix(name, "_sum") {
			assert.Contains(t, string(telemetry), "`"+name+"`")
		}
	}
}

func TestDashboard_NamesWhatExists(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../dashboards/holdfast.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Title       string
			Description string
			Targets     []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	require.NotEmpty(t, dashboard.Panels)
	series := scraped(t)
	for _, panel := range dashboard.Panels {
		assert.NotEmpty(t, panel.Description, panel.Title)
		require.NotEmpty(t, panel.Targets, panel.Title)
		for _, target := range panel.Targets {
			checkExpression(t, series, strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$instance", ".*").Replace(target.Expr))
		}
	}
}
