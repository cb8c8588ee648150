// Package otelholdfast makes OpenTelemetry spans and metrics of what happens in a Holdfast runtime.
//
//	rt, err := holdfast.New(client, holdfast.Options{Trace: otelholdfast.Trace()})
//	registration, err := otelholdfast.Observe(rt)
//	defer registration.Unregister()
//
// doc/telemetry.md of the repository lists the metrics and spans. The folder dashboards has a dashboard for Grafana and alert rules for
// Prometheus.
package otelholdfast
