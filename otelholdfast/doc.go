// Package otelholdfast reports what happens in a Holdfast runtime as OpenTelemetry spans and metrics.
//
//	rt, err := holdfast.New(client, holdfast.Options{Trace: otelholdfast.Trace()})
//	registration, err := otelholdfast.Observe(rt)
//	defer registration.Unregister()
//
// doc/telemetry.md of the repository lists the metrics and spans. The folder otelholdfast/dashboards contains a dashboard for Grafana and alert
// rules for Prometheus.
package otelholdfast
