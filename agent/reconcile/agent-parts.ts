import { type Config } from '../../config/config.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';
import { ListeningLog } from '../keepalived/listening-log.ts';
import { UnreadLog } from '../report/unread-log.ts';
import { NoticeReader } from '../../lib/keepalived/notices.ts';
import { EndpointPersister } from '../endpoints/endpoint-persister.ts';
import { OtherHolders } from '../keepalived/other-holders.ts';
import { DrainLog } from '../report/drain-log.ts';
import { LocalClientsLog } from '../report/local-clients-log.ts';
import { tellAll } from '../report/loop-observer.ts';
import { type LoopMetrics } from '../report/loop-metrics.ts';
import { type ReconcileState } from '../observe/reconcile-state.ts';
import { sayNotice } from '../report/notice-log.ts';
import { createPersisterLog } from '../report/persister-log.ts';
import { OtherHolderLog } from '../report/other-holder-log.ts';
import { createWeightsLog } from '../report/weights-log.ts';
import { type AgentPorts } from './agent.ts';
import { HostDrain } from './host-drain.ts';
import { LocalClients } from './local-clients.ts';
import { ConnectionWeights } from './weights.ts';

/** Who keeps the state file; `memory` is what it has. */
export function createPersister(
  { store, clock, logger }: AgentPorts,
  memory: ReconcileState,
  metrics: LoopMetrics,
): EndpointPersister {
  return new EndpointPersister(store, clock, { saved: memory, report: createPersisterLog(logger, metrics) });
}

/** Who hears keepalived, and its log. */
export function createNoticeReader({ notices, clock, logger }: AgentPorts): NoticeReader {
  return new NoticeReader(notices, clock, (notice, before) => {
    sayNotice(logger, notice, before);
  });
}

/** Who asks whether another host has a VIP, and its log. */
export function createOtherHolders(
  { askOtherHolder, clock, logger, events }: AgentPorts,
  { vips }: Config,
): OtherHolders {
  return new OtherHolders({ askOtherHolder, clock, report: new OtherHolderLog(logger, events) }, vips);
}

/** Who keeps local clients, with its log and its counts. */
export function createLocalClients(
  { kernel, logger }: AgentPorts,
  config: Config,
  metrics: LoopMetrics,
): LocalClients {
  return new LocalClients({ kernel, report: tellAll([new LocalClientsLog(logger), metrics]) }, config);
}

/** Who keeps the drain of this host, and its log. */
export function createHostDrain(
  { drain, clock, logger, askOtherHolder }: AgentPorts,
  onChange: () => void,
): HostDrain {
  return new HostDrain({ ...drain, clock, askLink: askOtherHolder, report: new DrainLog(logger), onChange });
}

/** What is said of rules that a look cannot read, and of what listens. */
export function createLookLogs(logger: Logger): [UnreadLog, ListeningLog] {
  return [new UnreadLog(logger), new ListeningLog(logger)];
}

/** Who counts connections for the method `lc`, and its log; null with another method, where nobody counts. */
export function createConnectionWeights(
  { kernel, clock, logger }: AgentPorts,
  { method }: Config,
  onChange: () => void,
): ConnectionWeights | null {
  if (method !== 'lc') return null;
  return new ConnectionWeights({ kernel, clock, onChange, onTrouble: createWeightsLog(logger) });
}
