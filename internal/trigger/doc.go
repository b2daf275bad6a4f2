// Package trigger parses the HTTP triggers of ScaledObjects: it classifies a trigger (Classify), parses and validates
// its metadata (Parse), and converts a trigger of type kedify-http to one that stock KEDA supports
// (ConversionMetadata). NeedsProxy reports which HTTPScaledObjects rely on proxies.
//
// It is pure, and shared by all programs that read such metadata: the agent, its webhook, and the scaler, which uses
// only a part of it (ParseScaling). The table of all keys is in keys.go.
package trigger
