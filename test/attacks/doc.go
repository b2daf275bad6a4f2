// Package attacks contains attacks on the built interceptor, with a real API server and a real Envoy, by other Pods of the cluster:
// those of a fleet of their own, in namespace evil, and those of no fleet. During each attack the proxy of namespace
// apps serves requests, acknowledges a weight, and its requests are counted. The memory of the interceptor stays below
// the limit of config/interceptor. The attack on the agent's webhook is in test/agent.
package attacks
