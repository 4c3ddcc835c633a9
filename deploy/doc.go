// Package deploy holds what runs workers in production: an image, a stack for
// Docker Compose, manifests for Kubernetes, a dashboard for Grafana and alerts
// for Prometheus. Its tests hold these to what the code does. There is no code
// to import.
package deploy
