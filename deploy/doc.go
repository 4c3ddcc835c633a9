// Package deploy has no code to import. Its directory has what runs workers in
// production: images, a stack for Docker Compose, manifests for Kubernetes, a dashboard
// for Grafana and alerts for Prometheus. Its tests check that these fit the code.
package deploy
