// Package adopt works out what a Rollout needs so that router kedify/http shares its requests and its replicas follow
// them: the canary's Service, a ScaledObject in the place of the HorizontalPodAutoscaler that is there, and the router in
// the Rollout. It gets values and returns values.
package adopt
