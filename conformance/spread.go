package conformance

import (
	"slices"
	"strings"
)

// ofOneStore reports whether a rule states or assumes what only a single store can guarantee: which of
// several jobs a claim takes, the order of turns, how much one call gives, and the limits of a whole
// queue. A backend that spreads a queue over several stores guarantees this only within each of them.
func ofOneStore(r Rule) bool {
	_, name, _ := strings.Cut(r.ID, "/")
	return slices.Contains(oneStoreGroups, r.Group()) || slices.Contains(strings.Fields(oneStore[r.Group()]), name)
}

var oneStoreGroups = []string{"Order", "Turn", "Limit", "Model"}

// oneStore has the rules of the other groups, by group.
var oneStore = map[string]string{
	"Bound":   "EnqueueTakesTheLargestBatch PagesGoOnFromAJobThatIsGone",
	"Claim":   "EndsWithItsBytes EndsWithItsBytesOfDueJobs GivesAJobOnce RepeatedSettleIsNotRepeated ServesSharesInOrder",
	"Count":   "CountsAreOfStates SuppressedAreCountedApart",
	"Data":    "PayloadsComeBackUnchanged ResultsComeBackUnchanged",
	"Edit":    "KeepsThePlace MakesCopiesOfTheDeadStale OtherStatesAreRefused ReplacesThePayload",
	"Enqueue": "BadItemFailsAlone ChecksInOrder DuplicateIDIsRefused GeneratedIDIsForgotten GivenIDIsRemembered",
	"Fault":   "LateEnqueueChangesNothing RepeatedOperationsAreHarmless",
	"Follow":  "GoesToTheBack",
	"Find": "ByID ByState ByWorker FiltersByDueAndCreation MayLeaveThePayloadOut PagesShowEveryJob SelectsByAllThatIsSet " +
		"SurvivesChange",
	"Hold": "CountsForDepth IsNeverClaimed ObeysTheTable TakesOutOfTheQueue UnholdAfterItsTime UnholdMakesItWhatItWas " +
		"UnholdPutsInFront",
	"Keep":  "CompleteLeavesTheProgress GoesAlong IsFenced",
	"Key":   "DepthComesBeforeUniqueKeys KeysTellsAll MaxDepthBounds PauseKeepsItsJobsBack",
	"Lease": "EndedIDIsRememberedForADay RenewCountsWhatIsHeld RetireLeavesOthersAlone RetireListsWhatItReleased",
	"Many":  "FindsWhatALimitKeptBack ServesSharesInOrder",
	"Meet":  "ARepeatBesideAnother ARepeatChangesNothing DebounceOfADueJob NeedsNoRoom ReplacesWhatHasNotStarted",
	"Operate": "AnEarlierJobWithTheID CancelledIsNeverClaimed DeletedIsNeverClaimed EachOnItsOwn KeepsQueuesWithAnyJob ObeysTheTable " +
		"RescheduleAtOnce RescheduleSetsTheTime SaysWhatStandsAgainstIt",
	"Outcome": "CompleteLeavesNothing RetryIsDueAfterItsDelay StoresWhatApplySays",
	"Policy": "DepthHoldsOverHandles FullQueueRefuses FullQueueRefusesNoRetry IsOfOneQueue MayComeBeforeTheFirstJob " +
		"PausedTakesAndSettles",
	"Race":    "NoLimitIsExceeded OneConsumerSeesTheOrder",
	"Reclaim": "EndsWithItsBytes GoesOverSeveralCalls LeavesTheLivingAlone",
	"Restore": "AfterItsTime DepthRefusesWhatCounts GoesOn KeepsTheWholePast KeptFromItsEnd NoRefFromThereFits OfAHeldJob " +
		"RepeatIsRefused",
	"Retention": "CountBoundsRecords DeadByPolicy DeadStayByDefault PruneByCountIsBounded PruneIsBounded PruneTouchesNothingElse " +
		"RedrivenJobIsNotPruned",
	"Room":     "ByAChangeOfAPolicy ByTheEndOfALease NotByWhatIsKeptBack",
	"Schedule": "SpansRoundUp",
	"Sequence": "ADeadHeadStopsItsKey",
	"Settle": "CancelRequestedEndsWhatWouldLive EndedLeaseIsVoid EndedWorkerSettlesWhatIsLeft LostItemHarmsNoOther " +
		"NumbersOutliveRenewals OlderNumberChangesNothing",
	"Unique": "RefusedLeavesNoKey TheIDComesFirstWithinARequest TTLBoundsTheHold",
	"Watch":  "EveryWatcherSeesEachEvent RepeatIsNotSeen SettledIsOfEndedLeasesAndCancels SettledIsSeen",
}
