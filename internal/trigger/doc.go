// Package trigger reads the triggers of ScaledObjects that scale by HTTP requests: which triggers
// those are (Recognise), what their metadata says and what is wrong with it (Parse), and how a
// trigger of type kedify-http is said in words that a stock KEDA understands (Additions).
//
// It is pure, and shared by all who read such metadata: the agent, its webhook, the scaler, which goes by
// a part of it only (ParseScaling). What a trigger may say is one table, in keys.go.
package trigger
