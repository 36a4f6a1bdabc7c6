import { systemClock } from '../../lib/control/clock.ts';
import { exitStatuses } from '../../lib/text/exit-status.ts';
import { formatSeatsJson } from '../format/json/seats-json.ts';
import { formatSeats } from '../format/screens/seats.ts';
import { type SeatsContext, type SeatsOptions } from '../grammar/command-context.ts';
import { createSeatsApi } from '../seats/api-seats.ts';
import { drainNode, type MoveOptions, rebalanceSeats, undrainNode } from '../seats/move-seats.ts';
import { findClusterRoute } from '../services/cluster-route.ts';

/**
 * `vipnat seats`: who holds which seat, by the API alone; or moves seats.
 * @throws VipnatError API_CREDENTIALS_INVALID without credentials, SEATS_NOT_MOVED, and those of a request to the API
 */
export async function seats({ config, options, screen, stdout, stderr }: SeatsContext): Promise<number> {
  const route = findClusterRoute(config, 'seats');
  const clock = systemClock;
  const api = createSeatsApi({ route, clock, namespace: options.namespace });
  await move(
    {
      api,
      clock,
      say: (words) => {
        stderr(`${words}\n`);
      },
    },
    options,
  );
  const view = await api.view();
  stdout(options.json ? formatSeatsJson(view) : formatSeats(view, screen()));
  return view.seats.every(({ holders }) => holders.length === 1) ? exitStatuses.done : exitStatuses.found;
}

async function move(moving: MoveOptions, { action, node }: SeatsOptions): Promise<void> {
  switch (action) {
    case 'list':
      return;
    case 'drain':
      await drainNode(moving, node);
      return;
    case 'undrain':
      await undrainNode(moving, node);
      return;
    case 'rebalance':
      if ((await rebalanceSeats(moving)) === 0) moving.say('every seat is where it is to be');
  }
}
