package conformance

import (
	"slices"
	"strings"
)

// ofOneStore reports whether a rule says what only one store can keep, or takes it
// for granted: which of several jobs a claim takes, in what order keys have turns, how
// much one call gives, and what a whole queue is limited to. A backend that spreads a
// queue over several stores keeps it in each.
func ofOneStore(r Rule) bool {
	_, name, _ := strings.Cut(r.ID, "/")
	return slices.Contains(oneStoreGroups, r.Group()) || slices.Contains(strings.Fields(oneStore[r.Group()]), name)
}

var oneStoreGroups = []string{"Order", "Turn", "Limit", "Model"}

// oneStore are the names of the others, by their groups.
var oneStore = map[string]string{
	"Bound":   "EnqueueTakesTheLargestBatch PagesGoOnFromAJobThatIsGone",
	"Claim":   "EndsWithItsBytes EndsWithItsBytesOfDueJobs GivesAJobOnce RepeatedSettleIsNotRepeated ServesSharesInOrder",
	"Count":   "CountsAreOfStates SuppressedAreCountedApart",
	"Data":    "PayloadsComeBackUnchanged ResultsComeBackUnchanged",
	"Edit":    "KeepsThePlace MakesCopiesOfTheDeadStale OtherStatesAreRefused ReplacesThePayload",
	"Enqueue": "BadItemFailsAlone ChecksInOrder DuplicateIDIsRefused GeneratedIDIsForgotten GivenIDIsRemembered",
	"Fault":   "LateEnqueueChangesNothing RepeatedOperationsAreHarmless",
	"Follow":  "GoesToTheBack",
	"Find": "ByID ByState ByWorker MayLeaveThePayloadOut PagesShowEveryJob SelectsByAllThatIsSet ShowsTheWholeJob " +
		"SurvivesChange",
	"Hold": "CountsForDepth IsNeverClaimed ObeysTheTable TakesOutOfTheQueue UnholdAfterItsTime UnholdMakesItWhatItWas " +
		"UnholdPutsInFront",
	"Keep":  "CompleteLeavesTheProgress GoesAlong IsFenced",
	"Key":   "KeysTellsAll MaxDepthBounds PauseKeepsItsJobsBack",
	"Lease": "EndedIDIsRememberedForADay RenewCountsWhatIsHeld RetireLeavesOthersAlone RetireListsWhatItReleased",
	"Many":  "FindsWhatALimitKeptBack ServesSharesInOrder",
	"Meet":  "ARepeatBesideAnother ARepeatChangesNothing NeedsNoRoom ReplacesWhatHasNotStarted",
	"Operate": "CancelledIsNeverClaimed DeletedIsNeverClaimed EachOnItsOwn ObeysTheTable RescheduleAtOnce " +
		"RescheduleSetsTheTime SaysWhatStandsAgainstIt",
	"Outcome": "CompleteLeavesNothing RetryIsDueAfterItsDelay StoresWhatApplySays",
	"Policy": "DepthHoldsOverHandles FullQueueRefuses FullQueueRefusesNoRetry IsOfOneQueue MayComeBeforeTheFirstJob " +
		"PausedTakesAndSettles",
	"Race":    "NoLimitIsExceeded OneConsumerSeesTheOrder",
	"Reclaim": "EndsWithItsBytes GoesOverSeveralCalls LeavesTheLivingAlone",
	"Restore": "AfterItsTime DepthRefusesWhatCounts GoesOn KeepsTheWholePast KeptFromItsEnd NoRefFromThereFits OfAHeldJob " +
		"RepeatIsRefused",
	"Retention": "CountBoundsRecords DeadByPolicy DeadStayByDefault PruneIsBounded PruneTouchesNothingElse " +
		"RedrivenJobIsNotPruned",
	"Room":     "ByAChangeOfAPolicy ByTheEndOfALease NotByWhatIsKeptBack",
	"Sequence": "ADeadHeadStopsItsKey",
	"Settle": "CancelRequestedEndsWhatWouldLive EndedLeaseIsVoid EndedWorkerSettlesWhatIsLeft LostItemHarmsNoOther " +
		"OlderNumberChangesNothing",
	"Unique": "RefusedLeavesNoKey TheIDComesFirstWithinARequest TTLBoundsTheHold",
	"Watch":  "RepeatIsNotSeen SettledIsOfEndedLeasesAndCancels SettledIsSeen",
}
