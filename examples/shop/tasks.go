package main

import (
	"time"

	"github.com/seed81422ce9/jobs"
)

// begin tasks

// The queues. Slow or limited jobs do not stand in front of quick ones.
const (
	queueMail     = "mail"
	queuePictures = "pictures" // fair: each customer is a key
	queueCarrier  = "carrier"  // of an API that allows two calls a second
	queueReports  = "reports"
)

// Receipt asks for the mail about an order.
type Receipt struct{ Order string }

// Thumbnails asks for small versions of the pictures of an order.
type Thumbnails struct{ Order string }

// Parcel asks for an order to be picked up.
type Parcel struct{ Order string }

// The tasks, with the options that apply wherever they are enqueued.
var (
	SendReceipt = jobs.Define[Receipt]("receipt:send",
		jobs.WithQueue(queueMail), jobs.WithMaxRetries(8), jobs.WithTimeout(time.Minute))
	MakeThumbnails = jobs.Define[Thumbnails]("thumbnails:make",
		jobs.WithQueue(queuePictures), jobs.WithPriority(jobs.PriorityLow))
	BookParcel = jobs.Define[Parcel]("parcel:book",
		jobs.WithQueue(queueCarrier), jobs.WithBackoff(jobs.Backoff{
			Kind: jobs.BackoffExponential, Base: time.Minute, Max: time.Hour}))
)

// end tasks

// Region is a part of the nightly report.
type Region struct{ Name string }

// The tasks of the nightly report.
var (
	ReportNight  = jobs.Define[struct{}]("report:night", jobs.WithQueue(queueReports))
	ReportRegion = jobs.Define[Region]("report:region", jobs.WithQueue(queueReports))
	ReportSum    = jobs.Define[struct{}]("report:sum", jobs.WithQueue(queueReports))
)
