package view

import "time"

// MaxPoints limits the Points of one object.
const MaxPoints = 120

// PointOf returns the present Point of an object, and false if it has no split.
func PointOf(source Source, now time.Time) (Point, bool) {
	weights := splitOf(source)
	if weights == nil {
		return Point{}, false
	}
	point := Point{
		Time:    now,
		Written: canaryPercent(weights, func(w Weight) uint32 { return w.Written }),
		Active:  canaryPercent(weights, func(w Weight) uint32 { return w.Active }),
	}
	if report := source.Object.Status.DataPlane; report != nil {
		point.Proxies = Proxies{Ready: report.Proxies.Ready, Acked: report.Proxies.Acked}
		point.IsEffective = report.Effective
	}
	return point, true
}

// canaryPercent returns the percentage of the weights that the stable Service does not have.
func canaryPercent(weights []Weight, of func(Weight) uint32) float64 {
	const percent = 100
	sum := 0.0
	for _, weight := range weights {
		sum += float64(of(weight))
	}
	if sum == 0 {
		return 0
	}
	return round(percent * (sum - float64(of(weights[0]))) / sum)
}

// History is the course of the split of one object. Its methods never change the array of points, so that a reader can
// use a previous value.
type History struct {
	// Points are the changes, oldest first, at most MaxPoints.
	Points []Point
	// Ended is when the split ended, the zero time while there is one.
	Ended time.Time
}

// Last returns the last Point, the zero one if there is none.
func (h History) Last() Point {
	if len(h.Points) == 0 {
		return Point{}
	}
	return h.Points[len(h.Points)-1]
}

// Add returns the history with a Point of a split.
func (h History) Add(point Point) History {
	return History{Points: addPoint(h.Points, point)}
}

// End returns the history with the Point of an object whose split has ended.
func (h History) End(source Source, now time.Time) History {
	point := Point{Time: now}
	if report := source.Object.Status.DataPlane; report != nil {
		point.Proxies = Proxies{Ready: report.Proxies.Ready, Acked: report.Proxies.Acked}
		point.IsEffective = report.Effective
	}
	if h.Ended.IsZero() {
		h.Ended = now
	}
	return History{Points: addPoint(h.Points, point), Ended: h.Ended}
}

// addPoint adds a Point if it differs from the last one.
func addPoint(points []Point, point Point) []Point {
	if len(points) > 0 {
		last := points[len(points)-1]
		last.Time = point.Time
		if last == point {
			return points
		}
	}
	start := max(0, len(points)-MaxPoints+1)
	return append(points[start:len(points):len(points)], point)
}
