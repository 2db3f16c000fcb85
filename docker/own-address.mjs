const { HOST = '' } = process.env;
const isAny = ['', '0.0.0.0', '::'].includes(HOST);

/** The address at which this container's gateway or usage worker answers, as in a URL. */
export const ownAddress = isAny ? '127.0.0.1' : HOST.includes(':') ? `[${HOST}]` : HOST;
