import { VipnatError } from '../../../lib/errors.ts';

/** Whether a tool refuses what is done; anything else that goes wrong is thrown. */
export function isToolRefusing(act: () => void): boolean {
  try {
    act();
    return false;
  } catch (error) {
    if (!(error instanceof VipnatError) || error.code !== 'TOOL_FAILED') throw error;
    return true;
  }
}
