// Package keda runs KEDA itself against the scaler and checks the number of replicas. TestKEDA sets the scaler's values
// as annotations; see test/annotatedscaler. TestInterceptorRoute sends requests to apps with InterceptorRoutes, without
// a substitute for any component.
package keda
