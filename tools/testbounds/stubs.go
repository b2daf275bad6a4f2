package main

// stub returns the declarations that the rules need of a package of the standard library, "" if they need none.
func stub(name string) string {
	switch name {
	case "time":
		return stubOfTime
	case "context":
		return "package context\ntype Context interface{ Done() <-chan struct{}; Err() error }\n"
	case "testing":
		return "package testing\ntype T struct{ _ int }\ntype B struct{ _ int }\ntype TB interface{ Helper() }\n"
	default:
		return ""
	}
}

const stubOfTime = `package time
type Duration int64
const (
	Nanosecond Duration = 1
	Microsecond = 1000 * Nanosecond
	Millisecond = 1000 * Microsecond
	Second = 1000 * Millisecond
	Minute = 60 * Second
	Hour = 60 * Minute
)
func (Duration) Seconds() float64
func (Duration) Minutes() float64
func (Duration) Hours() float64
func (Duration) Milliseconds() int64
func (Duration) Microseconds() int64
func (Duration) Nanoseconds() int64
func (Duration) Round(Duration) Duration
func (Duration) Truncate(Duration) Duration
func (Duration) Abs() Duration
func (Duration) String() string
type Time struct{ _ int }
func (Time) Sub(Time) Duration
func (Time) Add(Duration) Time
func (Time) After(Time) bool
func (Time) Before(Time) bool
func (Time) Equal(Time) bool
func (Time) IsZero() bool
func (Time) Round(Duration) Time
func (Time) Truncate(Duration) Time
func (Time) UTC() Time
func (Time) Local() Time
func (Time) UnixMilli() int64
func Now() Time
func Since(Time) Duration
func Until(Time) Duration
func After(Duration) <-chan Time
func Sleep(Duration)
type Timer struct{ C <-chan Time }
func NewTimer(Duration) *Timer
func AfterFunc(Duration, func()) *Timer
`
